//! From the registers and the stack of a program to the functions that it is in.
//!
//! Most programs are compiled without frame pointers, so the kernel cannot follow their calls. But they
//! say how to leave each of their functions (the section `.eh_frame`, for exceptions), which `framehop`
//! follows through a copy of the stack. CPython calls every Python function through a piece of code that
//! it generates for it, if it is asked to (`-X perf`); so its return address is on the stack too. Other
//! generated code, such as Java's and Node's, is left by its frame pointers, if it keeps them.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use object::{Object as _, ObjectSection as _, ObjectSegment as _};

use crate::maps::{FileId, Mapping, ProcessMaps, VDSO, is_cpython, vdso};

/// Bytes of a page, of the smallest that there are.
const PAGE: u64 = 4096;

/// The most functions of a stack.
const DEPTH_MAX: usize = 512;

/// The registers with which leaving a function begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registers {
    pub(crate) instruction: u64,
    pub(crate) stack: u64,
    pub(crate) frame: u64,
    /// The address to return to, where a register holds it (AArch64).
    pub(crate) link: u64,
}

#[cfg(target_arch = "x86_64")]
mod native {
    pub(super) use framehop::x86_64::{
        CacheX86_64 as Cache, UnwindRegsX86_64 as Regs, UnwinderX86_64 as Unwinder,
    };

    /// Numbers of the registers for perf (`asm/perf_regs.h`): BP, SP, IP.
    pub(crate) const MASK: u64 = 1 << 6 | 1 << 7 | 1 << 8;
    pub(crate) const REGISTERS: usize = 3;

    /// From the values of those registers, in the order of their numbers.
    pub(crate) fn registers(values: &[u64]) -> Option<super::Registers> {
        let [frame, stack, instruction] = *values else { return None };
        Some(super::Registers { instruction, stack, frame, link: 0 })
    }

    pub(super) fn regs(of: &super::Registers) -> Regs {
        Regs::new(of.instruction, of.stack, of.frame)
    }
}

#[cfg(target_arch = "aarch64")]
mod native {
    pub(super) use framehop::aarch64::{
        CacheAarch64 as Cache, UnwindRegsAarch64 as Regs, UnwinderAarch64 as Unwinder,
    };

    /// Numbers of the registers for perf (`asm/perf_regs.h`): X29, LR, SP, PC.
    pub(crate) const MASK: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;
    pub(crate) const REGISTERS: usize = 4;

    /// From the values of those registers, in the order of their numbers.
    pub(crate) fn registers(values: &[u64]) -> Option<super::Registers> {
        let [frame, link, stack, instruction] = *values else { return None };
        Some(super::Registers { instruction, stack, frame, link })
    }

    pub(super) fn regs(of: &super::Registers) -> Regs {
        Regs::new(of.link, of.stack, of.frame)
    }
}

pub(crate) use native::{MASK, REGISTERS, registers};

/// What a file says about leaving its functions.
#[derive(Clone, Debug)]
struct Sections {
    eh_frame: Option<Section>,
    eh_frame_hdr: Option<Section>,
    /// Where executable parts of the file are to be loaded: offset, bytes, address.
    segments: Vec<(u64, u64, u64)>,
}

/// Bytes at an address.
type Section = (std::ops::Range<u64>, Arc<[u8]>);

impl Sections {
    /// `None` if the file cannot be read as a program.
    fn read(mapping: &Mapping, pid: u32) -> Option<Sections> {
        if mapping.path == Path::new(VDSO) {
            return Sections::of(&object::File::parse(vdso()?.as_slice()).ok()?);
        }
        // Only what is needed is read: programs with debug information have hundreds of megabytes.
        let bytes = object::ReadCache::new(std::fs::File::open(mapping.seen_from_here(pid)).ok()?);
        Sections::of(&object::File::parse(&bytes).ok()?)
    }

    fn of<'data>(file: &object::File<'data, impl object::ReadRef<'data>>) -> Option<Sections> {
        let section = |name: &str| -> Option<Section> {
            let section = file.section_by_name(name)?;
            let range = section.address()..section.address() + section.size();
            Some((range, Arc::from(section.data().ok()?)))
        };
        // Two segments may share a page of the file, so only those that are code.
        let mut segments = Vec::new();
        for segment in file.segments() {
            if let object::SegmentFlags::Elf { p_flags, .. } = segment.flags()
                && p_flags.contains(object::elf::PF_X)
            {
                let (offset, length) = segment.file_range();
                segments.push((offset, length, segment.address()));
            }
        }
        Some(Sections {
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
            segments,
        })
    }

    /// Where address 0 of the file is in a process that has mapped it so.
    fn base(&self, mapping: &Mapping) -> Option<u64> {
        let offset = mapping.offset;
        // A mapping begins at the page in which its segment begins.
        let holds = |(start, length, _): &&(u64, u64, u64)| {
            mapping.end - mapping.start + offset > *start && offset < start + length
        };
        let (start, _, address) = self.segments.iter().find(holds)?;
        Some(mapping.start.wrapping_sub(address.wrapping_add(offset).wrapping_sub(*start)))
    }

    fn module(&self, mapping: &Mapping) -> Option<framehop::Module<Arc<[u8]>>> {
        let range = |section: &Option<Section>| section.as_ref().map(|(range, _)| range.clone());
        let bytes =
            |section: &Option<Section>| section.as_ref().map(|(_, bytes)| Arc::clone(bytes));
        let info = framehop::ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: range(&self.eh_frame),
            eh_frame: bytes(&self.eh_frame),
            eh_frame_hdr_svma: range(&self.eh_frame_hdr),
            eh_frame_hdr: bytes(&self.eh_frame_hdr),
            ..framehop::ExplicitModuleSectionInfo::default()
        };
        let (addresses, base) = (mapping.start..mapping.end, self.base(mapping)?);
        Some(framehop::Module::new(String::new(), addresses, base, info))
    }
}

/// A process and how to leave its functions.
struct Process {
    unwinder: native::Unwinder<Arc<[u8]>>,
    maps: ProcessMaps,
    /// Whether the code that it generates is CPython's.
    is_python: bool,
    /// Pages that were looked for: what is in none of its files is not looked for again.
    unknown: HashSet<u64>,
}

/// Follows the calls of programs.
#[derive(Default)]
pub(crate) struct Unwinder {
    files: HashMap<FileId, Option<Arc<Sections>>>,
    processes: HashMap<u32, Process>,
    cache: native::Cache,
}

impl Unwinder {
    /// The addresses of the functions that a process was in, the innermost first. `stack` is a copy of
    /// its stack from its top, and `generated` are the places of code that it has generated.
    pub(crate) fn calls(
        &mut self,
        pid: u32,
        registers: Registers,
        stack: &[u8],
        generated: &[(u64, u64)],
    ) -> Vec<u64> {
        let is_generated =
            |address: u64| generated.iter().any(|(start, end)| (*start..*end).contains(&address));
        let page = registers.instruction / PAGE;
        let is_known = |process: &Process| {
            process.maps.find(registers.instruction).is_some() || process.unknown.contains(&page)
        };
        if !self.processes.get(&pid).is_some_and(is_known) && !is_generated(registers.instruction) {
            self.look_at(pid);
            if let Some(process) = self.processes.get_mut(&pid) {
                process.unknown.insert(page);
            }
        }
        let Some(Process { unwinder, maps, is_python, .. }) = self.processes.get(&pid) else {
            return vec![registers.instruction];
        };
        let is_code = |address: u64| maps.find(address).is_some() || is_generated(address);
        let mut read = |address: u64| {
            let from = address.checked_sub(registers.stack).ok_or(())? as usize;
            let bytes = stack.get(from..from.saturating_add(8)).ok_or(())?;
            Ok(u64::from_ne_bytes(bytes.try_into().map_err(|_| ())?))
        };
        let mut calls = vec![registers.instruction];
        let mut regs = native::regs(&registers);
        let mut address = framehop::FrameAddress::from_instruction_pointer(registers.instruction);
        while calls.len() < DEPTH_MAX {
            let within = address.address();
            let left = match *is_python && is_generated(within) && address.is_return_address() {
                true => leave_trampoline(&mut regs, &mut read, &is_code),
                false => None,
            };
            let next = match left {
                Some(next) => next,
                None => {
                    match framehop::Unwinder::unwind_frame(
                        unwinder,
                        address,
                        &mut regs,
                        &mut self.cache,
                        &mut read,
                    ) {
                        Ok(Some(next)) => next,
                        // The outermost function, or the end of the copy.
                        Ok(None) | Err(_) => break,
                    }
                }
            };
            if !is_code(next.wrapping_sub(1)) {
                break;
            }
            calls.push(next);
            let Some(next) = framehop::FrameAddress::from_return_address(next) else { break };
            address = next;
        }
        calls
    }

    /// Forgets processes that have ended.
    pub(crate) fn forget_ended(&mut self) {
        self.processes.retain(|pid, _| Path::new(&format!("/proc/{pid}")).exists());
    }

    /// Reads what a process has mapped.
    fn look_at(&mut self, pid: u32) {
        use framehop::Unwinder as _;
        let maps = ProcessMaps::of(pid);
        let mut unwinder = native::Unwinder::new();
        for mapping in maps.all() {
            let read = || Sections::read(mapping, pid).map(Arc::new);
            let sections = self.files.entry(mapping.file).or_insert_with(read);
            if let Some(module) = sections.as_ref().and_then(|of| of.module(mapping)) {
                unwinder.add_module(module);
            }
        }
        let known = self.processes.remove(&pid);
        let unknown = known.map(|process| process.unknown).unwrap_or_default();
        let is_python = maps.all().any(|mapping| is_cpython(&mapping.path));
        self.processes.insert(pid, Process { unwinder, maps, is_python, unknown });
    }
}

/// Leaves the piece of code through which CPython calls a Python function.
///
/// It either keeps a frame pointer or only moves the stack by a word (CPython 3.12,
/// `Python/asm_trampoline.S`); both ways its own return address is the second word above.
#[cfg(target_arch = "x86_64")]
fn leave_trampoline(
    regs: &mut native::Regs,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
    is_code: &impl Fn(u64) -> bool,
) -> Option<u64> {
    let top = regs.sp();
    let next = read(top.checked_add(8)?).ok().filter(|next| is_code(next.wrapping_sub(1)))?;
    if regs.bp() == top {
        regs.set_bp(read(top).ok()?);
    }
    regs.set_sp(top + 16);
    regs.set_ip(next);
    Some(next)
}

/// On AArch64 it keeps a frame pointer, as everything else does.
#[cfg(not(target_arch = "x86_64"))]
fn leave_trampoline(
    _regs: &mut native::Regs,
    _read: &mut impl FnMut(u64) -> Result<u64, ()>,
    _is_code: &impl Fn(u64) -> bool,
) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_segments_that_share_a_page_of_the_file_are_told_apart() {
        let sections = Sections {
            eh_frame: None,
            eh_frame_hdr: None,
            segments: vec![(0x1400, 0x8000, 0x2400)],
        };
        let mapping = Mapping {
            start: 0x7000_2000,
            end: 0x7000_b000,
            offset: 0x1000,
            file: (0, 0, 0),
            path: std::path::PathBuf::from("/program"),
        };
        // The page at 0x1000 of the file is at address 0x2000 of the program.
        assert_eq!(sections.base(&mapping), Some(0x7000_0000));
        let elsewhere = Mapping { offset: 0x20_0000, ..mapping };
        assert_eq!(sections.base(&elsewhere), None);
    }

    #[test]
    fn our_own_code_has_its_place() {
        let pid = std::process::id();
        let maps = ProcessMaps::of(pid);
        let here = our_own_code_has_its_place as fn() as usize as u64;
        let mapping = maps.find(here).unwrap();
        let sections = Sections::read(mapping, pid).unwrap();
        let base = sections.base(mapping).unwrap();
        // A function is where its symbol says, above the base.
        let bytes = std::fs::read(&mapping.path).unwrap();
        let file = object::File::parse(bytes.as_slice()).unwrap();
        let is_here = |symbol: object::Symbol<'_, '_>| {
            use object::ObjectSymbol as _;
            symbol.address() == here - base
        };
        use object::Object as _;
        assert!(file.symbols().any(is_here), "{here:#x} {base:#x}");
    }
}
