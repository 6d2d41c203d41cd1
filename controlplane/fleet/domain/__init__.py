"""The pure rules of launching: values in, values out. No Django, no clock, no files."""
