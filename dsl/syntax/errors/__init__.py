"""What people get wrong in a text becomes one message each: in declarations, expressions, numbers, and by habit."""
