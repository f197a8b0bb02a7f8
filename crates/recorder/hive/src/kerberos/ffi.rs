//! The functions of `libgssapi_krb5.so.2`, behind types that own what the library allocates.
//!
//! The declarations are those of RFC 2744 and, for `gss_acquire_cred_from`, of MIT's
//! `<gssapi/gssapi_ext.h>`. This is the only module with `unsafe`; every pointer that the library
//! gets is valid for the call, and everything that it allocates is owned by a type whose `Drop`
//! releases it.

#![allow(unsafe_code, reason = "a C library is called")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use super::error::{GssStatus, KerberosError};

// Flags of a context: RFC 2744, section 5.19.
pub(crate) const MUTUAL: u32 = 2;
pub(crate) const REPLAY: u32 = 4;
pub(crate) const SEQUENCE: u32 = 8;
pub(crate) const CONFIDENTIALITY: u32 = 16;
pub(crate) const INTEGRITY: u32 = 32;

const LIBRARY: &str = "libgssapi_krb5.so.2";
/// The major status of a context that needs another token.
const CONTINUE_NEEDED: u32 = 1;
/// The bits of a major status that are errors.
const ERRORS: u32 = 0xffff_0000;
/// The bits of `gss_unwrap`'s status that tell of a repeated or reordered message.
const OUT_OF_ORDER: u32 = 0b1_1110;
/// `GSS_C_INITIATE`.
const INITIATE: c_int = 1;
/// `GSS_C_GSS_CODE` and `GSS_C_MECH_CODE`: which of the two codes to put in words.
const CODES: [c_int; 2] = [1, 2];
/// Limit on the messages that are read for one code.
const MESSAGES_MAX: usize = 4;

/// Kerberos 5: 1.2.840.113554.1.2.2.
static MECHANISM: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];
/// A Kerberos principal name: 1.2.840.113554.1.2.2.1.
static PRINCIPAL_NAME: [u8; 10] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x01];

#[repr(C)]
struct OidDesc {
    length: u32,
    elements: *const c_void,
}

impl OidDesc {
    const fn of(bytes: &'static [u8]) -> OidDesc {
        OidDesc { length: bytes.len() as u32, elements: bytes.as_ptr().cast() }
    }
}

#[repr(C)]
struct OidSetDesc {
    count: usize,
    elements: *const OidDesc,
}

#[repr(C)]
struct BufferDesc {
    length: usize,
    value: *mut c_void,
}

impl BufferDesc {
    const EMPTY: BufferDesc = BufferDesc { length: 0, value: ptr::null_mut() };

    /// The description of bytes that the library only reads.
    fn of(bytes: &[u8]) -> BufferDesc {
        BufferDesc { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }
}

#[repr(C)]
struct KeyValue {
    key: *const c_char,
    value: *const c_char,
}

#[repr(C)]
struct KeyValueSet {
    count: u32,
    elements: *const KeyValue,
}

type Handle = *mut c_void;
type Release = unsafe extern "C" fn(*mut u32, *mut Handle) -> u32;
type ImportName =
    unsafe extern "C" fn(*mut u32, *const BufferDesc, *const OidDesc, *mut Handle) -> u32;
type AcquireCredFrom = unsafe extern "C" fn(
    *mut u32,
    Handle,
    u32,
    *const OidSetDesc,
    c_int,
    *const KeyValueSet,
    *mut Handle,
    *mut Handle,
    *mut u32,
) -> u32;
type InitSecContext = unsafe extern "C" fn(
    *mut u32,
    Handle,
    *mut Handle,
    Handle,
    *const OidDesc,
    u32,
    u32,
    Handle,
    *const BufferDesc,
    *mut *const OidDesc,
    *mut BufferDesc,
    *mut u32,
    *mut u32,
) -> u32;
type DeleteSecContext = unsafe extern "C" fn(*mut u32, *mut Handle, *mut BufferDesc) -> u32;
type Wrap = unsafe extern "C" fn(
    *mut u32,
    Handle,
    c_int,
    u32,
    *const BufferDesc,
    *mut c_int,
    *mut BufferDesc,
) -> u32;
type Unwrap = unsafe extern "C" fn(
    *mut u32,
    Handle,
    *const BufferDesc,
    *mut BufferDesc,
    *mut c_int,
    *mut u32,
) -> u32;
type WrapSizeLimit = unsafe extern "C" fn(*mut u32, Handle, c_int, u32, u32, *mut u32) -> u32;
type ReleaseBuffer = unsafe extern "C" fn(*mut u32, *mut BufferDesc) -> u32;
type DisplayStatus =
    unsafe extern "C" fn(*mut u32, u32, c_int, *const OidDesc, *mut u32, *mut BufferDesc) -> u32;

/// The functions that are used.
pub(crate) struct Functions {
    import_name: ImportName,
    release_name: Release,
    acquire_cred_from: AcquireCredFrom,
    release_cred: Release,
    init_sec_context: InitSecContext,
    delete_sec_context: DeleteSecContext,
    wrap: Wrap,
    unwrap: Unwrap,
    wrap_size_limit: WrapSizeLimit,
    release_buffer: ReleaseBuffer,
    display_status: DisplayStatus,
    /// Keeps the functions in memory.
    _library: Library,
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(LIBRARY)
    }
}

/// The library, loaded at the first call and never unloaded.
pub(crate) fn functions() -> Result<&'static Functions, KerberosError> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    // A static program's own C library and that of a loaded library would be two.
    if cfg!(target_feature = "crt-static") {
        return Err(KerberosError::Static);
    }
    let functions = FUNCTIONS.get_or_init(|| load().map_err(|error| error.to_string()));
    functions.as_ref().map_err(|cause| KerberosError::NotInstalled(cause.clone()))
}

fn load() -> Result<Functions, libloading::Error> {
    // SAFETY: the library's initialisation has no preconditions. Each type is that of the function
    // of this name in RFC 2744 or gssapi_ext.h, and the library is kept as long as the functions.
    unsafe {
        let library = Library::new(LIBRARY)?;
        Ok(Functions {
            import_name: *library.get(c"gss_import_name")?,
            release_name: *library.get(c"gss_release_name")?,
            acquire_cred_from: *library.get(c"gss_acquire_cred_from")?,
            release_cred: *library.get(c"gss_release_cred")?,
            init_sec_context: *library.get(c"gss_init_sec_context")?,
            delete_sec_context: *library.get(c"gss_delete_sec_context")?,
            wrap: *library.get(c"gss_wrap")?,
            unwrap: *library.get(c"gss_unwrap")?,
            wrap_size_limit: *library.get(c"gss_wrap_size_limit")?,
            release_buffer: *library.get(c"gss_release_buffer")?,
            display_status: *library.get(c"gss_display_status")?,
            _library: library,
        })
    }
}

/// Bytes that the library allocated.
#[derive(Debug)]
pub(crate) struct Buffer {
    functions: &'static Functions,
    length: usize,
    value: *mut c_void,
}

impl Buffer {
    fn new(functions: &'static Functions, desc: BufferDesc) -> Buffer {
        Buffer { functions, length: desc.length, value: desc.value }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        if self.value.is_null() {
            return &[];
        }
        // SAFETY: the library wrote `length` bytes at `value`, and they are released only by Drop.
        unsafe { std::slice::from_raw_parts(self.value.cast(), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut desc = BufferDesc { length: self.length, value: self.value };
        // SAFETY: the buffer is the library's, and this is its only release.
        unsafe { (self.functions.release_buffer)(&mut 0, &mut desc) };
    }
}

/// A name in the library's form.
#[derive(Debug)]
pub(crate) struct Name {
    functions: &'static Functions,
    handle: Handle,
}

impl Drop for Name {
    fn drop(&mut self) {
        // SAFETY: the handle is the library's, and this is its only release.
        unsafe { (self.functions.release_name)(&mut 0, &mut self.handle) };
    }
}

/// A credential: where the client's tickets come from.
#[derive(Debug)]
pub(crate) struct Credential {
    functions: &'static Functions,
    handle: Handle,
}

impl Drop for Credential {
    fn drop(&mut self) {
        // SAFETY: the handle is the library's, and this is its only release.
        unsafe { (self.functions.release_cred)(&mut 0, &mut self.handle) };
    }
}

/// A context, or none before the first step.
#[derive(Debug)]
pub(crate) struct RawContext {
    functions: &'static Functions,
    handle: Handle,
}

impl RawContext {
    pub(crate) fn none(functions: &'static Functions) -> RawContext {
        RawContext { functions, handle: ptr::null_mut() }
    }
}

impl Drop for RawContext {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is the library's, and this is its only release; no token is wanted.
            unsafe {
                (self.functions.delete_sec_context)(&mut 0, &mut self.handle, ptr::null_mut())
            };
        }
    }
}

/// The result of a step of the login.
pub(crate) struct Step {
    pub(crate) token: Buffer,
    pub(crate) is_complete: bool,
    pub(crate) flags: u32,
}

impl Functions {
    pub(crate) fn import_principal(&'static self, name: &str) -> Result<Name, GssStatus> {
        let kind = OidDesc::of(&PRINCIPAL_NAME);
        let (mut minor, mut handle) = (0, ptr::null_mut());
        // SAFETY: all pointers are valid for the call; the library copies the name.
        let major = unsafe {
            (self.import_name)(&mut minor, &BufferDesc::of(name.as_bytes()), &kind, &mut handle)
        };
        self.check(major, minor)?;
        Ok(Name { functions: self, handle })
    }

    /// A credential by the keytab's key; its tickets are in memory.
    pub(crate) fn acquire_from_keytab(
        &'static self,
        keytab: &CStr,
        client: Option<&Name>,
    ) -> Result<Credential, GssStatus> {
        let places = [
            KeyValue { key: c"client_keytab".as_ptr(), value: keytab.as_ptr() },
            KeyValue { key: c"ccache".as_ptr(), value: c"MEMORY:tachograph".as_ptr() },
        ];
        let store = KeyValueSet { count: places.len() as u32, elements: places.as_ptr() };
        let mechanism = OidDesc::of(&MECHANISM);
        let mechanisms = OidSetDesc { count: 1, elements: &mechanism };
        let client = client.map_or(ptr::null_mut(), |name| name.handle);
        let (mut minor, mut handle) = (0, ptr::null_mut());
        // SAFETY: all pointers are valid for the call; the last two results are not wanted.
        let major = unsafe {
            (self.acquire_cred_from)(
                &mut minor,
                client,
                0,
                &mechanisms,
                INITIATE,
                &store,
                &mut handle,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.check(major, minor)?;
        Ok(Credential { functions: self, handle })
    }

    /// One step of the login; without a credential, that of the user's ticket cache.
    pub(crate) fn init(
        &'static self,
        context: &mut RawContext,
        credential: Option<&Credential>,
        target: &Name,
        flags: u32,
        token: &[u8],
    ) -> Result<Step, GssStatus> {
        let mechanism = OidDesc::of(&MECHANISM);
        let credential = credential.map_or(ptr::null_mut(), |credential| credential.handle);
        let (mut minor, mut given) = (0, 0);
        let mut out = BufferDesc::EMPTY;
        // SAFETY: all pointers are valid for the call; channel bindings, the mechanism and the
        // lifetime are not wanted. The library creates the context when its handle is null, and
        // then owns what the handle points to.
        let major = unsafe {
            (self.init_sec_context)(
                &mut minor,
                credential,
                &mut context.handle,
                target.handle,
                &mechanism,
                flags,
                0,
                ptr::null_mut(),
                &BufferDesc::of(token),
                ptr::null_mut(),
                &mut out,
                &mut given,
                ptr::null_mut(),
            )
        };
        let token = Buffer::new(self, out);
        self.check(major, minor)?;
        Ok(Step { token, is_complete: major & CONTINUE_NEEDED == 0, flags: given })
    }

    pub(crate) fn wrap(
        &'static self,
        context: &RawContext,
        message: &[u8],
        encrypt: bool,
    ) -> Result<(Buffer, bool), GssStatus> {
        let (mut minor, mut encrypted) = (0, 0);
        let mut out = BufferDesc::EMPTY;
        // SAFETY: all pointers are valid for the call; the library refuses a null context.
        let major = unsafe {
            (self.wrap)(
                &mut minor,
                context.handle,
                c_int::from(encrypt),
                0,
                &BufferDesc::of(message),
                &mut encrypted,
                &mut out,
            )
        };
        let token = Buffer::new(self, out);
        self.check(major, minor)?;
        Ok((token, encrypted != 0))
    }

    pub(crate) fn unwrap(
        &'static self,
        context: &RawContext,
        token: &[u8],
    ) -> Result<(Buffer, bool), GssStatus> {
        let (mut minor, mut encrypted) = (0, 0);
        let mut out = BufferDesc::EMPTY;
        // SAFETY: all pointers are valid for the call; the library refuses a null context.
        let major = unsafe {
            (self.unwrap)(
                &mut minor,
                context.handle,
                &BufferDesc::of(token),
                &mut out,
                &mut encrypted,
                ptr::null_mut(),
            )
        };
        let message = Buffer::new(self, out);
        self.check(major, minor)?;
        if major & OUT_OF_ORDER != 0 {
            return Err(self.status(major, minor));
        }
        Ok((message, encrypted != 0))
    }

    pub(crate) fn wrap_limit(
        &'static self,
        context: &RawContext,
        bytes_max: u32,
        encrypt: bool,
    ) -> Result<u32, GssStatus> {
        let (mut minor, mut limit) = (0, 0);
        let encrypt = c_int::from(encrypt);
        // SAFETY: all pointers are valid for the call; the library refuses a null context.
        let major = unsafe {
            (self.wrap_size_limit)(&mut minor, context.handle, encrypt, 0, bytes_max, &mut limit)
        };
        self.check(major, minor)?;
        Ok(limit)
    }

    fn check(&'static self, major: u32, minor: u32) -> Result<(), GssStatus> {
        if major & ERRORS == 0 { Ok(()) } else { Err(self.status(major, minor)) }
    }

    /// Both codes in the library's words; those of the mechanism, if it has any, say more.
    fn status(&'static self, major: u32, minor: u32) -> GssStatus {
        let [general, own] = CODES;
        let mut text = self.words(minor, own);
        if minor == 0 || text.is_empty() {
            text = self.words(major, general);
        }
        GssStatus { major, minor, text }
    }

    fn words(&'static self, code: u32, which: c_int) -> String {
        let mechanism = OidDesc::of(&MECHANISM);
        let mut parts = Vec::new();
        let mut more = 0;
        for _ in 0..MESSAGES_MAX {
            let mut out = BufferDesc::EMPTY;
            // SAFETY: all pointers are valid for the call; `more` is zero at first, and then what
            // the library left in it.
            let major = unsafe {
                (self.display_status)(&mut 0, code, which, &mechanism, &mut more, &mut out)
            };
            let message = Buffer::new(self, out);
            if major & ERRORS != 0 {
                break;
            }
            parts.push(String::from_utf8_lossy(message.as_bytes()).into_owned());
            if more == 0 {
                break;
            }
        }
        parts.join("; ")
    }
}
