"""Service configs and the vLLM flag catalogue: plain Python, values in, values out."""
