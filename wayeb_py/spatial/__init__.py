"""Where things are: background knowledge becomes indexed places, which answer near, inside and distance.

    read (a file) → shapes (arrays) → index (trees and grids) → knowledge (by name, as the patterns use it)

Distances are great-circle, on a sphere of radius 6,371,008.8 m; containment is planar in lon/lat, and so are edges:
straight in lon/lat, as every map that shows degrees draws them.
"""
