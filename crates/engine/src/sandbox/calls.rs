//! Refuses system calls, with seccomp. A refused call fails with EACCES.
//!
//! `extract` works on open descriptors alone, and what it may call is a list of what it needs
//! ([`needed`]). For the others the list contains what is refused: the next versions of ONNX
//! Runtime and the C library may use any other call.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

use super::{Calls, needed};

/// Refused to every process: other processes, their memory, priority and place, and signals to them
/// that only threads of other programs use; namespaces and mounts, the kernel
/// itself; io_uring, which would bypass this list; files by handle, and their owners and
/// attributes, which Landlock does not cover; shared memory, semaphores and queues of System V,
/// which the server uses as well.
const ALWAYS_REFUSED: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_mrelease,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_personality,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_truncate,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
];

/// Refused to processes that do not use the network, nor times and modes of files.
const LOCAL: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_fchmodat,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
];

/// Calls whose first argument is a process or a thread. They are refused unless it is 0, the caller
/// itself.
const OF_A_PROCESS: &[c_long] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// Refused to processes that start no other: programs, and signals.
const WITHOUT_CHILDREN: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_kill,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Commands of `fcntl` and `ioctl` that let the kernel send a signal to another process when a
/// descriptor is ready.
const OWNERS: [(c_long, &[u64]); 2] = [
    (
        libc::SYS_fcntl,
        &[libc::F_SETOWN as u64, F_SETOWN_EX, F_SETSIG],
    ),
    (libc::SYS_ioctl, &[FIOSETOWN, SIOCSPGRP]),
];
const F_SETSIG: u64 = 10;
const F_SETOWN_EX: u64 = 15;
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;

/// Families of sockets that the internet and the resolver need.
const FAMILIES: [i32; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// # Errors
/// What the kernel does not support, as a sentence.
pub fn restrict(calls: Calls) -> Result<(), String> {
    let failed =
        |e: &dyn std::fmt::Display| format!("The kernel does not restrict system calls: {e}.");
    for program in programs(calls).map_err(|e| failed(&e))? {
        // Sets no_new_privs, too.
        seccompiler::apply_filter(&program).map_err(|e| failed(&e))?;
    }
    Ok(())
}

fn programs(calls: Calls) -> Result<Vec<BpfProgram>, BackendError> {
    if calls == Calls::Alone {
        return needed::programs();
    }
    let mut refused = of_others()?;
    match calls {
        Calls::Network => {
            refused.insert(libc::SYS_socket, other_families()?);
        }
        Calls::Requests => {
            refused.insert(libc::SYS_socket, other_families()?);
            refused.extend(WITHOUT_CHILDREN.iter().map(|call| (*call, vec![])));
            refused.insert(libc::SYS_tgkill, vec![other_than_this_process()?]);
        }
        Calls::Local | Calls::Alone => refused.extend(LOCAL.iter().map(|call| (*call, vec![]))),
    }
    #[cfg(target_arch = "x86_64")]
    refuse_x32(&mut refused);
    Ok(vec![program(
        refused,
        SeccompAction::Allow,
        refusal(libc::EACCES),
    )?])
}

/// Returns what is refused to every process.
fn of_others() -> Result<Rules, BackendError> {
    let mut refused: Rules = ALWAYS_REFUSED.iter().map(|call| (*call, vec![])).collect();
    for call in OF_A_PROCESS {
        let other = argument(0, SeccompCmpOp::Ne, 0)?;
        refused.insert(*call, vec![SeccompRule::new(vec![other])?]);
    }
    for (call, commands) in OWNERS {
        let rules = commands
            .iter()
            .map(|command| SeccompRule::new(vec![argument(1, SeccompCmpOp::Eq, *command)?]));
        refused.insert(call, rules.collect::<Result<_, _>>()?);
    }
    Ok(refused)
}

/// Sockets of other families than [`FAMILIES`].
fn other_families() -> Result<Vec<SeccompRule>, BackendError> {
    let is_other = |family: &i32| argument(0, SeccompCmpOp::Ne, *family as u64);
    let other = FAMILIES
        .iter()
        .map(is_other)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(vec![SeccompRule::new(other)?])
}

/// A signal to another process. abort() sends one to the process itself.
fn other_than_this_process() -> Result<SeccompRule, BackendError> {
    let own = u64::from(std::process::id());
    SeccompRule::new(vec![argument(0, SeccompCmpOp::Ne, own)?])
}

/// A condition on an argument of 32 bits. The filter compares arguments of other sizes than the
/// kernel's as the kernel reads them.
pub(super) fn argument(
    place: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(place, SeccompCmpArgLen::Dword, operator, value)
}

pub(super) fn refusal(error: i32) -> SeccompAction {
    SeccompAction::Errno(error as u32)
}

/// Returns a filter of calls: what happens with those that are not listed, and with the others.
pub(super) fn program(
    calls: Rules,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(calls, otherwise, listed, architecture)?.try_into()
}

/// The x32 interface has the same calls under other numbers, and a few of its own.
#[cfg(target_arch = "x86_64")]
fn refuse_x32(refused: &mut Rules) {
    const X32: c_long = 0x4000_0000;
    let calls: Vec<c_long> = refused.keys().copied().chain(512..=547).collect();
    refused.extend(calls.into_iter().map(|call| (call | X32, vec![])));
}
