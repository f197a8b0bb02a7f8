//! Flags of the commands that start servers and load them: `compare`, `diff` and `capacity`.

use base::Nanos;
use clap::Args;
use spec::{CompareArgs, Layout};

use super::load::RequestFlags;
use super::shared::HookFlags;
use crate::failure::Failure;

/// How servers are started, and what they are asked.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerFlags {
    /// Path and query of the URL
    #[arg(long, default_value = "/", value_name = "PATH")]
    pub(crate) path: String,
    /// The servers speak HTTPS
    #[arg(long, help_heading = "HTTPS")]
    pub(crate) https: bool,
    #[command(flatten)]
    pub(crate) hooks: HookFlags,
    /// Shell command to run before each start of each server
    #[arg(long, value_name = "COMMAND")]
    pub(crate) prepare: Option<String>,
    #[command(flatten)]
    pub(crate) request: RequestFlags,
    /// CPUs of client and servers: split (separate), same (one for both) or free (not pinned)
    #[arg(long, default_value = "split", value_name = "LAYOUT", value_parser = parse_layout)]
    pub(crate) layout: Layout,
    /// Timeout for a server to become ready
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = Nanos::parse)]
    pub(crate) ready_timeout: Nanos,
    /// Source of the server-side count, as the help of compare lists them; repeatable
    #[arg(long, value_name = "WHERE")]
    pub(crate) served_by: Vec<String>,
}

impl ServerFlags {
    /// The arguments of a plan in these flags; commands, server-side counts and preparation are left
    /// empty.
    pub(crate) fn args(&self) -> Result<CompareArgs, Failure> {
        Ok(CompareArgs {
            path: self.path.clone(),
            https: self.https,
            load: self.request.load(false)?,
            layout: self.layout,
            ready_timeout: Some(self.ready_timeout),
            ..CompareArgs::default()
        })
    }
}

/// The machines of servers and clients.
#[derive(Clone, Debug, Args)]
pub(crate) struct SiteFlags {
    /// Start the servers on another machine, over ssh
    #[arg(long, value_name = "HOST")]
    pub(crate) on: Option<String>,
    #[command(flatten)]
    pub(crate) clients: ClientFlags,
}

impl SiteFlags {
    /// The same plan on these machines.
    pub(crate) fn place(&self, args: CompareArgs) -> CompareArgs {
        CompareArgs { on: self.on.clone(), ..self.clients.place(args) }
    }
}

/// The machines of clients.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientFlags {
    /// Load the servers from another machine, over ssh; repeatable, all at once
    #[arg(long, value_name = "HOST")]
    pub(crate) from: Vec<String>,
    /// Address at which the clients reach the servers' machine [default: the one that ssh uses]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) at: Option<String>,
}

impl ClientFlags {
    /// The same plan with clients on these machines.
    pub(crate) fn place(&self, args: CompareArgs) -> CompareArgs {
        CompareArgs { from: self.from.clone(), address: self.at.clone(), ..args }
    }
}

fn parse_layout(text: &str) -> Result<Layout, String> {
    match text {
        "split" => Ok(Layout::Split),
        "same" => Ok(Layout::Same),
        "free" => Ok(Layout::Free),
        _ => Err("a layout is split, same or free".to_owned()),
    }
}
