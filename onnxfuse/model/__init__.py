"""The boundary to the file, and the editable graph."""
