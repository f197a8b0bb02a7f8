//! Functions of the kernel, by what they do.

use std::collections::BTreeMap;

/// What a function belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    Switching,
    Calls,
    Buffers,
    Unix,
    Acknowledgement,
    Tcp,
    Udp,
    Ip,
    Tracking,
    Checksum,
    Device,
    Other,
}

impl Group {
    pub(super) const ALL: [Group; 12] = [
        Group::Switching,
        Group::Calls,
        Group::Buffers,
        Group::Unix,
        Group::Tcp,
        Group::Acknowledgement,
        Group::Udp,
        Group::Ip,
        Group::Tracking,
        Group::Checksum,
        Group::Device,
        Group::Other,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Group::Switching => "waking and switching threads",
            Group::Calls => "the programs, and entering the kernel",
            Group::Buffers => "sockets, buffers, copying",
            Group::Unix => "Unix sockets",
            Group::Tcp => "TCP: segments, timers, headers",
            Group::Acknowledgement => "TCP: acknowledgements, congestion control",
            Group::Udp => "UDP",
            Group::Ip => "IP and routing",
            Group::Tracking => "netfilter, connection tracking",
            Group::Checksum => "checksums",
            Group::Device => "network device and its queue",
            Group::Other => "other",
        }
    }

    /// The group of a function, by the beginning or a part of its name in Linux 6.
    fn of(symbol: &str) -> Group {
        let name = symbol.trim_start_matches('_');
        let is = |with: &[&str]| with.iter().any(|with| name.starts_with(with));
        if name.contains("csum") || name.contains("checksum") {
            Group::Checksum
        } else if is(&[
            "nf_",
            "nft_",
            "ipt_",
            "xt_",
            "conntrack",
            "hash_conntrack",
            "tcp_in_window",
        ]) {
            Group::Tracking
        } else if is(&["unix_", "scm_", "maybe_init_creds", "security_unix", "cred_"]) {
            Group::Unix
        } else if is(&[
            "tcp_ack",
            "tcp_clean_rtx",
            "tcp_rate",
            "tcp_rack",
            "tcp_send_ack",
            "tcp_delack",
            "tcp_send_delayed_ack",
            "tcp_event_data_recv",
            "tcp_cong",
            "tcp_newly",
            "bbr_",
            "cubictcp",
            "bictcp",
            "tcp_update_pacing",
            "tcp_in_ack",
            "tcp_schedule_loss_probe",
            "tcp_rearm_rto",
            "tcp_rtt",
            "tcp_update_rtt",
            "minmax_running",
        ]) {
            Group::Acknowledgement
        } else if is(&[
            "tcp",
            "inet_csk",
            "inet_ehash",
            "inet_hash",
            "inet_twsk",
            "inet_lookup",
            "inet_bind",
            "secure_tcp",
            "sk_reset_timer",
            "mod_timer",
        ]) {
            Group::Tcp
        } else if is(&["udp"]) {
            Group::Udp
        } else if is(&[
            "ip_",
            "ipv4_",
            "inet",
            "fib_",
            "rt_",
            "dst_",
            "raw_local",
            "raw_v4",
            "neigh",
            "ip4_",
        ]) {
            Group::Ip
        } else if is(&[
            "loopback",
            "dev_",
            "validate_xmit",
            "net_rx",
            "process_backlog",
            "netif_",
            "netdev",
            "enqueue_to_backlog",
            "veth",
            "napi",
            "eth_",
            "handle_softirqs",
            "do_softirq",
            "local_bh",
            "skb_defer",
            "net_tx",
            "raise_softirq",
            "gro_",
            "qdisc",
            "skb_network_protocol",
            "harmonize",
            "passthru",
            "sock_wfree_dev",
        ]) {
            Group::Device
        } else if is(&[
            "finish_task",
            "schedule",
            "try_to_wake",
            "ttwu",
            "wake_up",
            "autoremove_wake",
            "default_wake",
            "pick_",
            "enqueue_",
            "dequeue_",
            "update_curr",
            "set_next",
            "put_prev",
            "prepare_to_wait",
            "finish_wait",
            "raw_spin_unlock_irq",
            "raw_spin_lock_irq",
            "raw_callee_save",
            "pv_queued",
            "switch_",
            "sched_",
            "add_wait",
            "remove_wait",
            "woken_wake",
            "update_load",
            "update_rq",
            "select_task",
            "native_load",
            "sk_wait",
            "wait_woken",
            "sock_def_readable",
            "unix_wait",
            "place_entity",
            "place_",
            "update_cfs",
            "reweight",
            "check_preempt",
            "wakeup_",
            "rseq",
            "resched",
            "avg_vruntime",
            "vruntime",
            "update_min",
            "cpuacct",
            "psi_",
            "hrtick",
        ]) {
            Group::Switching
        } else if is(&[
            "sock",
            "skb",
            "alloc_skb",
            "kfree",
            "kmem",
            "kmalloc",
            "copy_",
            "check_object",
            "check_heap",
            "memcg",
            "obj_cgroup",
            "consume_skb",
            "sk_",
            "slab",
            "virt_addr",
            "memset",
            "memcpy",
            "release_sock",
            "lock_sock",
            "build_skb",
            "datagram",
            "alloc_pages",
            "free_",
            "page_",
            "refill",
            "mod_objcg",
            "mod_memcg",
            "simple_copy",
            "napi_alloc",
            "rmqueue",
            "get_page",
            "account_obj",
            "simple_copy_to",
            "ksize",
            "put_cpu_partial",
            "alloc_inode",
            "alloc_file",
            "d_alloc",
            "iput",
            "dput",
            "fput",
            "kmalloc_reserve",
            "__alloc_skb",
            "try_charge",
            "zone_",
            "post_alloc",
            "get_random",
            "clear_page",
        ]) {
            Group::Buffers
        } else if is(&[
            "do_syscall",
            "entry_",
            "syscall",
            "vfs_",
            "ksys",
            "x64_sys",
            "fdget",
            "rw_verify",
            "security_",
            "apparmor",
            "exit_to_user",
            "fsnotify",
            "read_tsc",
            "ktime",
            "se_sys",
            "sys_",
            "import_",
            "user_mode",
            "common_interrupt",
            "mutex",
            "fd_install",
            "do_sys",
            "move_addr",
            "audit",
            "new_sync",
        ]) {
            Group::Calls
        } else {
            Group::Other
        }
    }
}

/// Shares of the time of a round trip, by group; together 1.
#[derive(Clone, Debug, Default)]
pub(super) struct Profile {
    shares: BTreeMap<Group, f64>,
    /// Functions of no group, the largest first, with their samples.
    pub(super) others: Vec<(String, u64)>,
    pub(super) samples: u64,
}

impl Profile {
    /// Reads what `perf report --sort sym,dso -F sample,sym` prints: a number of samples, whether the
    /// kernel's, and a function in each line.
    pub(super) fn read(text: &str) -> Profile {
        let mut samples: BTreeMap<Group, u64> = BTreeMap::new();
        let mut others = Vec::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(count), Some(mode), Some(symbol)) = (
                words.next().and_then(|count| count.parse::<u64>().ok()),
                words.next(),
                words.next(),
            ) else {
                continue;
            };
            let group = if mode == "[k]" { Group::of(symbol) } else { Group::Calls };
            *samples.entry(group).or_default() += count;
            if group == Group::Other {
                others.push((symbol.to_owned(), count));
            }
        }
        let all: u64 = samples.values().sum();
        let share = |count: u64| count as f64 / all.max(1) as f64;
        let shares = samples.into_iter().map(|(group, count)| (group, share(count))).collect();
        others.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Profile { shares, others, samples: all }
    }

    pub(super) fn share(&self, group: Group) -> f64 {
        self.shares.get(&group).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_group_of_their_work() {
        for (symbol, group) in [
            ("tcp_sendmsg_locked", Group::Tcp),
            ("__tcp_transmit_skb", Group::Tcp),
            ("tcp_ack_update_rtt", Group::Acknowledgement),
            ("bbr_main", Group::Acknowledgement),
            ("__ip_queue_xmit", Group::Ip),
            ("ipv4_dst_check", Group::Ip),
            ("fib_table_lookup", Group::Ip),
            ("nf_conntrack_in", Group::Tracking),
            ("__skb_checksum_complete", Group::Checksum),
            ("csum_partial", Group::Checksum),
            ("loopback_xmit", Group::Device),
            ("__netif_receive_skb_one_core", Group::Device),
            ("unix_stream_sendmsg", Group::Unix),
            ("finish_task_switch.isra.0", Group::Switching),
            ("_raw_spin_unlock_irqrestore", Group::Switching),
            ("_copy_to_iter", Group::Buffers),
            ("__check_object_size", Group::Buffers),
            ("do_syscall_64", Group::Calls),
            ("udp_sendmsg", Group::Udp),
            ("bpf_prog_run", Group::Other),
        ] {
            assert_eq!(Group::of(symbol), group, "{symbol}");
        }
    }

    #[test]
    fn shares_are_those_of_the_samples() {
        let text = "# header\n   30  [k] tcp_sendmsg\n   50  [k] unix_poll\n   20  [.] main\n\n";
        let profile = Profile::read(text);
        assert_eq!(profile.samples, 100);
        assert_eq!(
            [Group::Tcp, Group::Unix, Group::Calls, Group::Ip].map(|group| profile.share(group)),
            [0.3, 0.5, 0.2, 0.0]
        );
    }
}
