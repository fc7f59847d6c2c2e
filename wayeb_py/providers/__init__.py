"""Events as providers give them: other people's columns become one vocabulary.

`formats` says what each provider's columns mean here; `convert` turns such files into Parquet that is partitioned by
entity and ordered in time; `survey` says what is in a file. `simulate/` invents traffic of any size in the same
vocabulary.
"""
