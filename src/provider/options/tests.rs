//! Provider options and keys: what is accepted, and which field each refusal names.
