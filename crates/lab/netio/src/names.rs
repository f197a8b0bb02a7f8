/// Restricts glibc to its builtin lookups of hosts (`/etc/hosts`, then the name servers) and users
/// (`/etc/passwd`), if it is linked statically; otherwise does nothing.
///
/// A static glibc also loads the modules that `/etc/nsswitch.conf` names, such as
/// `libnss_myhostname.so.2`, and they crash the program unless they were built for exactly its
/// version of glibc. To be called once, before any lookup and any other thread.
pub fn use_builtin_lookups() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    builtin::configure();
}

#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
#[allow(unsafe_code)]
mod builtin {
    use std::ffi::{c_char, c_int};

    unsafe extern "C" {
        /// Declared in glibc's `<nss.h>`.
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }

    pub(super) fn configure() {
        let lookups = [(c"hosts", c"files dns"), (c"passwd", c"files"), (c"group", c"files")];
        for (database, services) in lookups {
            // SAFETY: both are C strings that live for the whole program, and the caller has no
            // other thread yet. A failure leaves the lookups as nsswitch.conf has them.
            unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
        }
    }
}
