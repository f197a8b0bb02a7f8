use super::*;

#[test]
fn cpu_times_of_each_cpu_are_read() {
    let stat = "\
cpu  300 10 50 4000 20 1 2 7 5 0
cpu0 100 10 20 1000 10 1 2 3 5 0
cpu3 200 0 30 3000 10 0 0 4 0 0
intr 12345 0 0
ctxt 99
cpu9 x
";
    let ms = |ms: u64| Nanos::from_millis(10 * ms);
    assert_eq!(
        cpu_times(stat),
        [
            CpuTimes { cpu: 0, user: ms(110), system: ms(23), idle: ms(1010), steal: ms(3) },
            CpuTimes { cpu: 3, user: ms(200), system: ms(30), idle: ms(3010), steal: ms(4) },
            CpuTimes { cpu: 9, ..CpuTimes::default() },
        ]
    );
    assert_eq!(cpu_times(stat)[0].busy(), ms(133));
    let early = cpu_times("cpu0 1 2 3 4\n");
    assert_eq!(early[0].steal, Nanos::ZERO, "kernels before 2.6.11 have four columns");
    assert_eq!(cpu_times(""), []);
}

#[test]
fn tcp_counters_are_found_by_their_names() {
    let netstat = "\
TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeouts TCPTimeWaitOverflow TCPSynRetrans New
TcpExt: 9 1 2 3 4 5 6
IpExt: InNoRoutes ListenDrops
IpExt: 7 8
";
    let expected = TcpCounters {
        listen_overflows: 1,
        listen_drops: 2,
        timeouts: 3,
        syn_retransmits: 5,
        time_wait_overflows: 4,
    };
    assert_eq!(tcp_counters(netstat), expected);
    assert_eq!(tcp_counters("TcpExt: ListenDrops\n"), TcpCounters::default());
    assert_eq!(tcp_counters("TcpExt: ListenDrops\nTcpExt: x\n"), TcpCounters::default());
}

#[test]
fn sockets_in_time_wait_are_read() {
    let sockstat = "sockets: used 24\nTCP: inuse 2 orphan 0 tw 49 alloc 2 mem 0\nUDP: inuse 0\n";
    assert_eq!(time_wait_sockets(sockstat), Some(49));
    assert_eq!(time_wait_sockets("TCP: inuse 2 orphan 0\n"), None);
    assert_eq!(time_wait_sockets("UDP: tw 3\n"), None);
}

#[test]
fn single_values_are_read() {
    assert_eq!(number("262144\n"), Some(262_144));
    assert_eq!(number("-1\n"), None);
    assert_eq!(port_range("32768\t60999\n"), Some((32_768, 60_999)));
    for text in ["", "1", "9 1", "1 2 3", "1 70000"] {
        assert_eq!(port_range(text), None, "{text}");
    }
    assert_eq!(memory_bytes("MemTotal:        4030220 kB\nMemFree: 1 kB\n"), Some(4_126_945_280));
    assert_eq!(memory_bytes("MemFree: 1 kB\n"), None);
    assert_eq!(memory_bytes("MemTotal: 99999999999999999999 kB"), None);
}

#[test]
fn processors_tell_their_model_in_several_ways() {
    let cases = [
        (
            "processor\t: 0\nmodel name\t: Intel(R)  Xeon(R) Processor\n",
            Some("Intel(R) Xeon(R) Processor"),
        ),
        ("processor\t: 0\nHardware\t: BCM2835\nModel\t: Raspberry Pi 4\n", Some("Raspberry Pi 4")),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", Some("ARM implementer 0x41 part 0xd0c")),
        ("processor\t: 0\nuarch\t: sifive,u74-mc\n", Some("sifive,u74-mc")),
        ("model name\t: \n", None),
        ("", None),
    ];
    for (cpuinfo, model) in cases {
        assert_eq!(cpu_model(cpuinfo).as_deref(), model, "{cpuinfo}");
    }
}

#[test]
fn hypervisors_show_themselves_in_several_ways() {
    assert!(has_hypervisor_flag("flags\t\t: fpu vme hypervisor lahf_lm\n"));
    assert!(!has_hypervisor_flag("flags\t\t: fpu vme\nmodel name\t: hypervisor\n"));
    let cases = [
        (("xen\n", "", "", false), Some("xen")),
        (("", "QEMU\n", "Standard PC\n", true), Some("QEMU")),
        (("", "Microsoft Corporation\n", "Virtual Machine\n", true), Some("Hyper-V")),
        (("", "Amazon EC2", "m5.large", true), Some("Amazon EC2")),
        (("", "", "", true), Some("unnamed")),
        (("", "LENOVO", "20XW", false), None),
        (("none", "", "", false), None),
    ];
    for ((kind, vendor, product, flag), name) in cases {
        assert_eq!(hypervisor(kind, vendor, product, flag).as_deref(), name, "{vendor} {product}");
    }
}

#[test]
fn distributions_are_named_as_they_like() {
    let debian = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
    assert_eq!(os_name(debian).as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
    assert_eq!(os_name("PRETTY_NAME=Alpine\n").as_deref(), Some("Alpine"));
    assert_eq!(os_name("PRETTY_NAME=\"\"\n"), None);
    assert_eq!(os_name("NAME=x\n"), None);
}

#[test]
fn cgroups_of_both_versions_are_found() {
    let one = "4:memory:/job\n2:cpu,cpuacct:/job\n0::/init.scope\n";
    let paths = cgroup_paths(one);
    assert_eq!(paths.cpuacct.as_deref(), Some("/job"));
    assert_eq!(paths.unified.as_deref(), Some("/init.scope"));
    assert_eq!(
        cgroup_paths("0::/user.slice/a:b.scope\n").unified.as_deref(),
        Some("/user.slice/a:b.scope")
    );
    assert_eq!(cgroup_paths("nonsense"), CgroupPaths::default());
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(text in "(cpu|TCP: |TcpExt: |tw|flags: |MemTotal: |[0-9]{1,25}|:| |\n|\\PC){0,40}") {
        cpu_times(&text);
        tcp_counters(&text);
        time_wait_sockets(&text);
        port_range(&text);
        cpu_model(&text);
        memory_bytes(&text);
        os_name(&text);
        cgroup_paths(&text);
    }
}
