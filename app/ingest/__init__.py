"""Long-lived pushes: lines of a chunked body and messages of a WebSocket, all served by one thread."""
