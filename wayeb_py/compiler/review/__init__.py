"""What is wrong or suspicious in compiled patterns, their facts and their places becomes diagnostics."""
