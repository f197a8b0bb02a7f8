//! What a stack has of its own: a folder, ports, and an id.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::StageError;
use crate::guard::remove_dir;
use crate::layout::{make_dir, word};
use crate::ports;
use crate::run_folder::RunFolder;

/// Ports and sockets per stack.
const PLACES: usize = 9;

/// The folder and ports of one stack, released when it ends.
pub(crate) struct Allocation {
    pub(crate) run: Arc<RunFolder>,
    /// The stack's folder.
    pub(crate) dir: PathBuf,
    pub(crate) ports: Vec<u16>,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let mut taken = self.run.ports();
        for port in &self.ports {
            taken.remove(port);
        }
        drop(taken);
        // The guard has done this unless it never started.
        remove_dir(&self.dir);
    }
}

/// A new id of a stack.
pub(crate) fn stack_id(run: &RunFolder, rng: &mut base::Rng) -> String {
    format!("{}-{}", run.id, word(rng, 6))
}

/// Creates the stack's folder, whose name has `letters` letters, and draws its ports.
pub(crate) fn allocate(
    run: &Arc<RunFolder>,
    letters: u32,
    rng: &mut base::Rng,
) -> Result<Allocation, StageError> {
    let dir = run.dir.join(word(rng, letters as usize));
    let mut allocation = Allocation { run: run.clone(), dir, ports: Vec::new() };
    for dir in [allocation.dir.clone(), allocation.dir.join("counters"), allocation.dir.join("log")]
    {
        make_dir(&dir).map_err(StageError::file("cannot create", &dir))?;
    }
    // Workers that have dropped their rights write counters too.
    let counters = allocation.dir.join("counters");
    fs::set_permissions(&counters, Permissions::from_mode(0o1777))
        .map_err(StageError::file("cannot change", &counters))?;
    let mut taken = run.ports();
    for _ in 0..PLACES {
        let port = ports::draw(rng, &taken).ok_or(StageError::NoPort)?;
        taken.insert(port);
        allocation.ports.push(port);
    }
    drop(taken);
    Ok(allocation)
}
