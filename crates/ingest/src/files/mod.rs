//! Files with archives of several resolutions.
