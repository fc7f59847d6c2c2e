"""A live stream under load: levels, shedding, validity, queues, as in the study of 2019, and lines in to lines out."""
