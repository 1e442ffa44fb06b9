//! The system calls that `extract` needs. All others are refused.
//!
//! It reads and writes open descriptors, allocates memory, starts threads, and reads clocks and its
//! own limits. It opens no file, starts no program, and sends signals to itself alone.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompRule,
};

use super::calls::{argument, program, refusal};

const ALWAYS: &[c_long] = &[
    // descriptors
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_dup,
    libc::SYS_ppoll,
    // memory
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    // threads, and their ends
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_restart_syscall,
    // signals to this thread
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // clocks, numbers and limits
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // a filter refuses it, so that clone is called instead
    libc::SYS_clone3,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getrlimit,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_setrlimit,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// Commands of `fcntl`.
const DESCRIPTORS: [i32; 5] = [
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
];

/// Options of `prctl`: names of threads and of memory.
const NAMES: [i32; 3] = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];

/// Returns the filters.
pub fn programs() -> Result<Vec<BpfProgram>, BackendError> {
    // The arguments of clone3 are in memory, which a filter does not see. The C library calls clone
    // where the kernel has no clone3.
    let only_clone: BTreeMap<c_long, Vec<SeccompRule>> = [(libc::SYS_clone3, vec![])].into();
    let listed = refusal(libc::ENOSYS);
    Ok(vec![
        program(only_clone, SeccompAction::Allow, listed)?,
        program(rules()?, refusal(libc::EACCES), SeccompAction::Allow)?,
    ])
}

fn rules() -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    let rule = |condition: SeccompCondition| SeccompRule::new(vec![condition]);
    let equal = |place, values: &[i32]| -> Result<Vec<SeccompRule>, BackendError> {
        let rules = values
            .iter()
            .map(|value| rule(argument(place, SeccompCmpOp::Eq, *value as u64)?));
        rules.collect()
    };
    let has = |place, flag: i32| -> Result<Vec<SeccompRule>, BackendError> {
        let flag = flag as u64;
        Ok(vec![rule(argument(
            place,
            SeccompCmpOp::MaskedEq(flag),
            flag,
        )?)?])
    };
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        ALWAYS.iter().map(|call| (*call, vec![])).collect();
    let own = std::process::id() as i32;
    rules.extend([
        (libc::SYS_fcntl, equal(1, &DESCRIPTORS)?),
        (libc::SYS_prctl, equal(0, &NAMES)?),
        (libc::SYS_prlimit64, equal(0, &[0])?),
        (libc::SYS_clone, has(0, libc::CLONE_THREAD)?),
        // abort
        (libc::SYS_tgkill, equal(0, &[own])?),
        // of an open descriptor
        (libc::SYS_newfstatat, has(3, libc::AT_EMPTY_PATH)?),
        (libc::SYS_statx, has(2, libc::AT_EMPTY_PATH)?),
    ]);
    Ok(rules)
}
