//! Where a RESP frame ends. (skeleton)
