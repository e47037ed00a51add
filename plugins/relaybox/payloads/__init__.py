"""Large payloads beside the message: a file that is durable before the message commits, and a header that refers to it.

```python
payloads = PayloadStore("/srv/payloads")
large = payloads.write(picture)
put(session, "pictures", "camera-7", large.payload, headers=large.headers)
```

A consumer calls `payloads.read(message)`: it returns the payload, and only if its length and its SHA-256 are those of the reference.
Needs no package; for s3:// it needs obstore. Each call reads or writes a file, so an event loop makes it with asyncio.to_thread.

`relaybox payloads` lists, checks and collects the files: modules `listing`, `checking` and `collecting`.
"""

from relaybox.payloads.references import HEADER, LargePayload, PayloadReference, reference_of
from relaybox.payloads.store import MARK, PayloadStore

__all__ = ["HEADER", "MARK", "LargePayload", "PayloadReference", "PayloadStore", "reference_of"]
