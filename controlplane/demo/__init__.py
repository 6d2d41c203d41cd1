"""The main job from end to end, through the REST API as a script would do it, on a real vLLM."""
