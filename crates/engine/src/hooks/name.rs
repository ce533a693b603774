//! Which hook a person means: exact, then a part of the name, then the nearest by typing errors.
