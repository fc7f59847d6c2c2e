"""The commands of `wayeb`, one a file: options in, a call of the library, its result printed."""
