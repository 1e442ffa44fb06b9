//! Refuses system calls, with seccomp.
//!
//! The list contains what is refused, not what is allowed: the next versions of ONNX Runtime and
//! the C library may use any other call. A refused call fails with EACCES.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::Calls;

/// Refused to every process: other processes and their memory, namespaces and mounts, the kernel
/// itself; io_uring, which would bypass this list; files by handle, and their owners and
/// attributes, which Landlock does not cover; shared memory, semaphores and queues of System V,
/// which the server uses as well.
const ALWAYS_REFUSED: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
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

/// Refused to processes that work on open descriptors only: opening files, starting programs,
/// signals to others.
const REFUSED_WITHOUT_FILES: &[c_long] = &[
    libc::SYS_socketpair,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Families of sockets that the internet and the resolver need.
const FAMILIES: [i32; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// # Errors
/// What the kernel does not support, as a sentence.
pub fn restrict(calls: Calls) -> Result<(), String> {
    let failed =
        |e: &dyn std::fmt::Display| format!("The kernel does not restrict system calls: {e}.");
    let program = program(calls).map_err(|e| failed(&e))?;
    // Sets no_new_privs, too.
    seccompiler::apply_filter(&program).map_err(|e| failed(&e))
}

fn program(calls: Calls) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut refused: BTreeMap<c_long, Vec<SeccompRule>> =
        ALWAYS_REFUSED.iter().map(|call| (*call, vec![])).collect();
    match calls {
        Calls::Network => {
            // The filter compares arguments of other sizes than the kernel's as the kernel reads
            // them.
            let is_other = |family: &i32| {
                SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, *family as u64)
            };
            let other = FAMILIES
                .iter()
                .map(is_other)
                .collect::<Result<Vec<_>, _>>()?;
            refused.insert(libc::SYS_socket, vec![SeccompRule::new(other)?]);
        }
        Calls::Local => refused.extend(LOCAL.iter().map(|call| (*call, vec![]))),
        Calls::Alone => {
            refused.extend(
                LOCAL
                    .iter()
                    .chain(REFUSED_WITHOUT_FILES)
                    .map(|call| (*call, vec![])),
            );
            // abort() sends a signal to the process itself.
            let other = SeccompCondition::new(
                0,
                SeccompCmpArgLen::Dword,
                SeccompCmpOp::Ne,
                u64::from(std::process::id()),
            )?;
            refused.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![other])?]);
        }
    }
    #[cfg(target_arch = "x86_64")]
    refuse_x32(&mut refused);
    let architecture = std::env::consts::ARCH.try_into()?;
    let refusal = SeccompAction::Errno(libc::EACCES as u32);
    SeccompFilter::new(refused, SeccompAction::Allow, refusal, architecture)?.try_into()
}

/// The x32 interface has the same calls under other numbers, and a few of its own.
#[cfg(target_arch = "x86_64")]
fn refuse_x32(refused: &mut BTreeMap<c_long, Vec<SeccompRule>>) {
    const X32: c_long = 0x4000_0000;
    let calls: Vec<c_long> = refused.keys().copied().chain(512..=547).collect();
    refused.extend(calls.into_iter().map(|call| (call | X32, vec![])));
}
