//! The dispatcher without a kernel: requests as bytes in, replies as bytes out.

mod fake;
mod golden;
mod hostile;
mod requests;
