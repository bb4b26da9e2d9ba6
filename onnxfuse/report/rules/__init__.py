"""Rules shown to people: listed, drawn, and explained in words."""
