"""Ways to reach hosts: local, SSH, and an honest fake. Start reading at `links.py`; nothing here knows Django."""
