"""Public feature maps: tables, images, any transformer."""
