//! Containers of a stack.
//!
//! A container is managed by a process of the stack, [`attend`], which creates it, waits for its
//! end, and removes it when asked to stop. So it belongs to the guard like every process:
//!
//! ```text
//! guard ─┬─ nginx
//!        └─ tachograph container ──API── engine ─── container's processes
//! ```
//!
//! The processes that the engine starts for it (the container's own, and the proxy of a published
//! port) are moved to the stack's control group and CPUs, so that their cost is counted. Containers
//! and networks carry the run's folder as a label; if the attendant is killed, the run's watch removes
//! them, and if that is killed too, the next run.
//!
//! Without a control group, a container's processes are counted by their list. A container whose
//! processes are not on this machine is refused, because its cost cannot be measured. Podman's service
//! supports the same calls (`ENGINE=podman scripts/with-docker.sh`); its health checks are run by
//! systemd, so without systemd `ready = "healthy"` never succeeds.

mod attend;
mod engine;
mod image;
mod sweep;

pub use attend::{ContainerError, ContainerOptions, Network, attend};
pub use engine::{ContainerEngine, EngineError};
pub use image::Image;
pub(crate) use sweep::{sweep, sweep_after_kill, was_used};

/// The label with the run's folder.
const RUN_LABEL: &str = "tachograph.run-dir";
