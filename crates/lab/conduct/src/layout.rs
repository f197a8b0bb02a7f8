//! The CPUs of the client and the stacks.

use base::CpuSet;
use spec::Layout;

/// A division of the machine's CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// CPUs of the client's threads.
    pub client: CpuSet,
    /// CPUs of every stack.
    pub stack: CpuSet,
}

impl Cpus {
    /// Divides the `online` CPUs: the client gets the last `threads` of them, but at most half; the
    /// stacks get the rest.
    pub fn divide(layout: Layout, online: &CpuSet, threads: u32) -> Cpus {
        let all: Vec<usize> = online.iter().collect();
        match layout {
            Layout::Free => Cpus { client: CpuSet::default(), stack: CpuSet::default() },
            Layout::Same => {
                let one: CpuSet = all.first().copied().into_iter().collect();
                Cpus { client: one.clone(), stack: one }
            }
            Layout::Split if all.len() < 2 => {
                Cpus { client: online.clone(), stack: online.clone() }
            }
            Layout::Split => {
                let client = (threads.max(1) as usize).min(all.len() / 2);
                let cut = all.len() - client;
                Cpus {
                    client: all[cut..].iter().copied().collect(),
                    stack: all[..cut].iter().copied().collect(),
                }
            }
        }
    }

    /// The division, as recorded, with the processes of `plan` that run beside the client.
    pub fn layout(&self, plan: &spec::Part) -> record::Layout {
        let processes = plan.variants.iter().flat_map(|variant| &variant.stack.processes);
        let mut beside_client: Vec<String> = Vec::new();
        for process in processes.filter(|process| process.beside_client) {
            if !self.client.is_empty() && !beside_client.contains(&process.name) {
                beside_client.push(process.name.clone());
            }
        }
        record::Layout { client: self.client.clone(), stack: self.stack.clone(), beside_client }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_beside_the_client_shares_its_cpus() {
        let layout = Cpus::divide(Layout::Split, &(0..2).collect(), 1).layout(&part("client"));
        assert!(layout.is_shared());
        assert_eq!(layout.beside_client, ["proxy"]);
        let layout = Cpus::divide(Layout::Free, &(0..2).collect(), 1).layout(&part("client"));
        assert_eq!(layout.beside_client, Vec::<String>::new(), "nothing is pinned");
    }

    /// A part of one variant, an app and a proxy on these CPUs.
    fn part(cpus: &str) -> spec::Part {
        let text = format!(
            "[experiment]\nname = \"x\"\ntitle = \"t\"\nquestion = \"q\"\n[[variant]]\n\
             name = \"v\"\ntarget = \"http://127.0.0.1:$PORT/\"\nprocess = [\
             {{ command = \"app\" }}, {{ name = \"proxy\", command = \"p\", cpus = \"{cpus}\" }}]\n"
        );
        spec::parse_plan(&text, "x.toml").unwrap().parts.remove(0)
    }

    #[test]
    fn the_client_gets_its_own() {
        let online: CpuSet = (0..4).collect();
        let sets = |layout, online: &CpuSet, threads| {
            let cpus = Cpus::divide(layout, online, threads);
            {
                let shared = cpus.layout(&part("stack")).is_shared();
                (cpus.client.to_string(), cpus.stack.to_string(), shared)
            }
        };
        let of = |client: &str, stack: &str, shared| (client.to_owned(), stack.to_owned(), shared);
        assert_eq!(sets(Layout::Split, &online, 1), of("3", "0-2", false));
        assert_eq!(sets(Layout::Split, &online, 9), of("2-3", "0-1", false));
        assert_eq!(sets(Layout::Same, &online, 1), of("0", "0", true));
        assert_eq!(sets(Layout::Split, &CpuSet::one(0), 1), of("0", "0", true));
        assert_eq!(sets(Layout::Free, &online, 1), of("", "", true));
    }
}
