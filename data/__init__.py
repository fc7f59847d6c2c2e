"""Small data that the repository ships, and the generators that make as much as one likes."""
