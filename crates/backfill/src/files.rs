//! Whole files, with their archives.
