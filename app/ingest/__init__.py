"""Long-lived pushes: lines of a body as they come, and messages of a WebSocket, all in one thread."""
