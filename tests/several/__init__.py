"""Files with several streams, silences and pairs, from their text to their detections."""
