//! Images: the system's own programs, a named image, or one built from a Dockerfile.
//!
//! The image `host` needs no registry. It is an empty root file system in which the system's
//! folders of programs and libraries are mounted read-only. A container of it runs the same Python,
//! nginx or shell as the host, so the only difference is the container.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bollard::body_full;
use bollard::errors::Error as ClientError;
use bollard::query_parameters::{BuildImageOptionsBuilder, CreateImageOptionsBuilder};
use futures_util::{StreamExt, TryStreamExt};
use sha2::{Digest as _, Sha256};

use crate::container::engine::{ContainerEngine, EngineError, context_error};

/// The name of the image `host`; the number rises when its content changes. It is not a tag,
/// because Podman tags every import as `latest`.
const HOST: &str = "tachograph-host-1";

/// Images built from Dockerfiles have this name, and a hash of their build context as tag.
const BUILT: &str = "tachograph-built";

/// Limit on the build context, which is sent to the engine in one piece.
const CONTEXT_BYTES_MAX: usize = 256 << 20;

/// Lines of a failed build's output to show.
const LINES_TOLD: usize = 12;

/// The image of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// The system's own programs, read-only.
    Host,
    /// A named image, pulled from its registry if the engine does not have it.
    Named(String),
    /// The image built from this Dockerfile, with its folder as build context.
    Dockerfile(PathBuf),
}

/// Folders of programs, libraries and their settings.
const SYSTEM: [&str; 8] = ["/bin", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/usr"];

/// Empty folders that the root file system needs as mount points.
const EMPTY: [&str; 5] = ["dev/", "proc/", "sys/", "tmp/", "run/"];

/// Makes the image available to the engine; returns the engine's name for it.
pub(super) fn ensure(engine: &ContainerEngine, image: &Image) -> Result<String, EngineError> {
    match image {
        Image::Host => {
            if !has(engine, HOST)? {
                import(engine)?;
            }
            Ok(HOST.to_owned())
        }
        Image::Named(name) => {
            if !has(engine, name)? {
                pull(engine, name)?;
            }
            Ok(name.clone())
        }
        Image::Dockerfile(file) => {
            let context = context(file).map_err(|error| context_error(file, &error))?;
            let digest = Sha256::digest(&context);
            let tag: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
            let name = format!("{BUILT}:{tag}");
            if !has(engine, &name)? {
                build(engine, file, context, &name)?;
            }
            Ok(name)
        }
    }
}

fn has(engine: &ContainerEngine, name: &str) -> Result<bool, EngineError> {
    match engine.wait("to look at an image", engine.client().inspect_image(name)) {
        Ok(_) => Ok(true),
        Err(EngineError::Refused { status: 404, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn import(engine: &ContainerEngine) -> Result<(), EngineError> {
    let options = CreateImageOptionsBuilder::new().from_src("-").repo(HOST).tag("latest").build();
    let body = body_full(empty_root().into());
    let steps = engine.client().create_image(Some(options), Some(body), None);
    engine.wait("to import an image", steps.try_for_each(async |_| Ok(())))
}

fn pull(engine: &ContainerEngine, name: &str) -> Result<(), EngineError> {
    let last = name.rsplit('/').next().unwrap_or(name);
    // Without a tag the engine would pull every version.
    let whole = if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") };
    let options = CreateImageOptionsBuilder::new().from_image(&whole).build();
    let steps = engine.client().create_image(Some(options), None, None);
    engine.wait("to fetch an image", steps.try_for_each(async |_| Ok(())))
}

fn build(
    engine: &ContainerEngine,
    file: &Path,
    context: Vec<u8>,
    name: &str,
) -> Result<(), EngineError> {
    let dockerfile = file.file_name().unwrap_or_default().to_string_lossy();
    let options = BuildImageOptionsBuilder::new().dockerfile(&dockerfile).t(name).rm(true).build();
    let mut steps =
        Box::pin(engine.client().build_image(options, None, Some(body_full(context.into()))));
    let mut output = String::new();
    let built = async {
        while let Some(step) = steps.next().await {
            output.push_str(&step?.stream.unwrap_or_default());
        }
        Ok::<(), ClientError>(())
    };
    engine.wait("to build an image", built).map_err(|error| match error {
        EngineError::Refused { what, why, status } => {
            let lines: Vec<&str> = output.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n");
            EngineError::Refused {
                what,
                why: format!("{why}\n{last}").trim_end().to_owned(),
                status,
            }
        }
        error => error,
    })
}

/// The folder of a Dockerfile as a tar archive that depends only on its files.
fn context(dockerfile: &Path) -> io::Result<Vec<u8>> {
    let folder = dockerfile.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::metadata(dockerfile)?;
    let mut archive = tar::Builder::new(LimitedBuffer(Vec::new()));
    archive.mode(tar::HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    archive.append_dir_all(".", folder.unwrap_or(Path::new(".")))?;
    Ok(archive.into_inner()?.0)
}

/// A buffer limited to what is sent to an engine in one piece.
struct LimitedBuffer(Vec<u8>);

impl Write for LimitedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > CONTEXT_BYTES_MAX {
            let most = CONTEXT_BYTES_MAX >> 20;
            return Err(io::Error::other(format!(
                "its folder is larger than {most} MiB; move it to a folder with only the files it \
                 needs"
            )));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The host folders to mount: the system's, and those with the programs and Python modules in the
/// environment.
pub(super) fn mounts() -> BTreeSet<PathBuf> {
    let mut mounts: BTreeSet<PathBuf> =
        SYSTEM.iter().map(PathBuf::from).filter(|folder| folder.is_dir()).collect();
    for folder in folders("PATH") {
        let Some(prefix) = folder.parent().filter(|prefix| prefix.join("pyvenv.cfg").exists())
        else {
            continue;
        };
        mounts.insert(prefix.to_owned());
        mounts.extend(home(prefix));
    }
    mounts.extend(folders("PYTHONPATH"));
    let all = mounts.clone();
    mounts.retain(|folder| !folder.ancestors().skip(1).any(|above| all.contains(above)));
    mounts
}

/// The existing folders in a variable such as `PATH`.
pub(super) fn folders(variable: &str) -> impl Iterator<Item = PathBuf> {
    let value = env::var_os(variable).unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&value).collect();
    folders.into_iter().filter(|folder| folder.is_absolute() && folder.is_dir())
}

/// The Python installation behind a virtual environment.
fn home(prefix: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(prefix.join("pyvenv.cfg")).ok()?;
    let home = text.lines().find_map(|line| line.strip_prefix("home = "))?;
    Some(Path::new(home.trim()).parent()?.to_owned())
}

/// A root file system of empty folders, as a tar archive.
fn empty_root() -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for name in EMPTY {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Directory);
        // tmp is world-writable, as on any system.
        header.set_mode(if name == "tmp/" { 0o1777 } else { 0o755 });
        header.set_size(0);
        // Such short names always fit, and writing to a vector cannot fail.
        let _ = archive.append_data(&mut header, name, io::empty());
    }
    archive.into_inner().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn listing(archive: &[u8]) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), archive).unwrap();
        let listing = Command::new("tar")
            .args(["-tf"])
            .arg(file.path())
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(listing.status.success());
        String::from_utf8(listing.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_empty_root_is_an_archive_that_tar_can_read() {
        assert_eq!(listing(&empty_root()), EMPTY);
    }

    #[test]
    fn a_context_is_the_folder_of_its_dockerfile_and_changes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("Dockerfile");
        fs::write(&file, "FROM scratch\n").unwrap();
        fs::write(dir.path().join("app.py"), "print(1)\n").unwrap();
        let first = context(&file).unwrap();
        let names = listing(&first);
        for name in ["Dockerfile", "app.py"] {
            assert!(names.iter().any(|listed| listed.ends_with(name)), "{names:?}");
        }
        assert_eq!(context(&file).unwrap(), first);
        fs::write(dir.path().join("app.py"), "print(2)\n").unwrap();
        assert_ne!(context(&file).unwrap(), first);
        let error = context(&dir.path().join("no-such-file")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_folder_that_is_too_large_to_send_is_refused() {
        let mut limited = LimitedBuffer(vec![0; CONTEXT_BYTES_MAX - 1]);
        assert!(limited.write_all(b"x").is_ok());
        let error = limited.write_all(b"x").unwrap_err().to_string();
        assert_eq!(
            error,
            "its folder is larger than 256 MiB; move it to a folder with only the \
            files it needs"
        );
    }
}
