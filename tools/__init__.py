"""Programs that serve the project and are not part of the product."""
