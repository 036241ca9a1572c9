"""Values to figures; nothing here sees a model."""
