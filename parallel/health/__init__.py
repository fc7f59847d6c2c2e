"""What a running stream shows of itself: rates, lag, back-pressure, metrics, and why it died."""
