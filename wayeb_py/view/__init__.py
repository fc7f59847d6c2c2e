"""Detections on a map: events and detections become one page that works without a network.

events → tracks     detections → episodes     knowledge → places     tracks + episodes + places → scene → page
"""
