"""Events as providers give them: other people's columns become one vocabulary.

`formats` says what each provider's columns mean here; `convert` turns such files into Parquet that is partitioned by
entity and ordered in time; `survey` says what is in a file. `generate_maritime` and `generate_fleet` make traffic of
any size over the invented geography of `invented_sea` and `invented_roads`.
"""
