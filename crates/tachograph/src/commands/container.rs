//! `tachograph container`: manages one container of a stack.

use stage::container::{ContainerOptions, Image, Network, attend};

use crate::failure::{Failure, Outcome, Status};
use crate::flags::container::{ContainerFlags, NetworkFlag};

pub(crate) fn run(flags: &ContainerFlags) -> Outcome {
    let ports = flags.publish.clone();
    let network = match &flags.network {
        NetworkFlag::Bridge => Network::Published(ports),
        NetworkFlag::Host => Network::Host,
        NetworkFlag::None => Network::None,
        NetworkFlag::Own(address, gateway) => {
            Network::Bridge { address: address.clone(), gateway: gateway.clone(), ports }
        }
    };
    let options = ContainerOptions {
        image: match (&flags.build, flags.image.as_str()) {
            (Some(file), _) => Image::Dockerfile(file.clone()),
            (None, "host") => Image::Host,
            (None, name) => Image::Named(name.to_owned()),
        },
        command: flags.command.clone(),
        env: flags.env.clone(),
        volumes: flags.volume.clone(),
        read_only: flags.read_only.clone(),
        security_opt: flags.security_opt.clone(),
        network,
        health: flags.health.clone(),
        healthy_file: flags.healthy_file.clone(),
        adopted_file: flags.adopted_file.clone(),
    };
    let stop = stage::signals::install_to_clear_up().map_err(Failure::new)?;
    attend(&options, &stop).map_err(Failure::new)?;
    Ok(Status::Well)
}
