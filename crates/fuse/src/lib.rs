//! Placeholder head; replaced as this floor is built.
