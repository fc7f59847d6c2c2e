"""Tests, in the folders of the code. Code that several folders share lies here; code that one folder shares lies in
it."""
