"""Events from files and detections into files: the side of the engine that touches the disk.

`read.open_events` turns paths into record batches with just the columns that the patterns need; `sort.sort_events`
puts disordered ones in order in bounded memory; `write.open_output` turns detections into a file that appears whole
or not at all. Nothing here knows what a pattern is.
"""
