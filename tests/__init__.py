"""Tests, in the folders of the code. What several folders share lies here; what one shares lies in it."""
