"""Tests of explanations of detections."""
