"""What serves the project and is no part of the product."""
