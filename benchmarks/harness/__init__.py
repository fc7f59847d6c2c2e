"""What every experiment uses: measuring and its records on one side, tables, figures and pages of them on the other."""
