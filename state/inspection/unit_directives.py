"""Directives that systemd knows, by section: those compiled into 252 and those of 253 to 257."""

_UNIT = """
    After AllowIsolate AssertACPower AssertArchitecture AssertCPUFeature AssertCPUPressure AssertCPUs
    AssertCapability AssertControlGroupController AssertCredential AssertDirectoryNotEmpty AssertEnvironment
    AssertFileIsExecutable AssertFileNotEmpty AssertFirstBoot AssertGroup AssertHost AssertIOPressure
    AssertKernelCommandLine AssertKernelModuleLoaded AssertKernelVersion AssertMemory AssertMemoryPressure
    AssertNeedsUpdate AssertOSRelease AssertPathExists AssertPathExistsGlob AssertPathIsDirectory
    AssertPathIsEncrypted AssertPathIsMountPoint AssertPathIsReadWrite AssertPathIsSymbolicLink AssertSecurity
    AssertUser AssertVersion AssertVirtualization Before BindTo BindsTo CollectMode ConditionACPower
    ConditionArchitecture ConditionCPUFeature ConditionCPUPressure ConditionCPUs ConditionCapability
    ConditionControlGroupController ConditionCredential ConditionDirectoryNotEmpty ConditionEnvironment
    ConditionFileIsExecutable ConditionFileNotEmpty ConditionFirmware ConditionFirstBoot ConditionGroup
    ConditionHost ConditionIOPressure ConditionKernelCommandLine ConditionKernelModuleLoaded ConditionKernelVersion
    ConditionMemory ConditionMemoryPressure ConditionNeedsUpdate ConditionOSRelease ConditionPathExists
    ConditionPathExistsGlob ConditionPathIsDirectory ConditionPathIsEncrypted ConditionPathIsMountPoint
    ConditionPathIsReadWrite ConditionPathIsSymbolicLink ConditionSecurity ConditionUser ConditionVersion
    ConditionVirtualization Conflicts DefaultDependencies Description Documentation FailureAction
    FailureActionExitStatus IgnoreOnIsolate IgnoreOnSnapshot JobRunningTimeoutSec JobTimeoutAction
    JobTimeoutRebootArgument JobTimeoutSec JoinsNamespaceOf OnFailure OnFailureIsolate OnFailureJobMode OnSuccess
    OnSuccessJobMode PartOf PropagateReloadFrom PropagateReloadTo PropagatesReloadTo PropagatesStopTo RebootArgument
    RefuseManualStart RefuseManualStop ReloadPropagatedFrom Requires RequiresMountsFor RequiresOverridable Requisite
    RequisiteOverridable SourcePath StartLimitAction StartLimitBurst StartLimitInterval StartLimitIntervalSec
    StopPropagatedFrom StopWhenUnneeded SuccessAction SuccessActionExitStatus SurviveFinalKillSignal Upholds Wants
    WantsMountsFor
"""
_SERVICE = """
    AllowedCPUs AllowedMemoryNodes AmbientCapabilities AppArmorProfile BPFProgram BindNetworkInterface BindPaths
    BindReadOnlyPaths BlockIOAccounting BlockIODeviceWeight BlockIOReadBandwidth BlockIOWeight BlockIOWriteBandwidth
    BusName BusPolicy CPUAccounting CPUAffinity CPUQuota CPUQuotaPeriodSec CPUSchedulingPolicy CPUSchedulingPriority
    CPUSchedulingResetOnFork CPUShares CPUWeight CacheDirectory CacheDirectoryMode Capabilities
    CapabilityBoundingSet ConcurrencyHardMax ConcurrencySoftMax ConfigurationDirectory ConfigurationDirectoryMode
    CoredumpFilter CoredumpReceive DefaultMemoryLow DefaultMemoryMin Delegate DelegateSubgroup DeviceAllow
    DevicePolicy DisableControllers DynamicUser Environment EnvironmentFile ExecCondition ExecPaths ExecReload
    ExecSearchPath ExecStart ExecStartPost ExecStartPre ExecStop ExecStopPost ExitType ExtensionDirectories
    ExtensionImages ExtraFileDescriptors FailureAction FileDescriptorStoreMax FileDescriptorStorePreserve
    FinalKillSignal Group GuessMainPID IOAccounting IODeviceLatencyTargetSec IODeviceWeight IOReadBandwidthMax
    IOReadIOPSMax IOSchedulingClass IOSchedulingPriority IOWeight IOWriteBandwidthMax IOWriteIOPSMax IPAccounting
    IPAddressAllow IPAddressDeny IPCNamespacePath IPEgressFilterPath IPIngressFilterPath IgnoreSIGPIPE
    ImportCredential InaccessibleDirectories InaccessiblePaths KeyringMode KillMode KillSignal LimitAS LimitCORE
    LimitCPU LimitDATA LimitFSIZE LimitLOCKS LimitMEMLOCK LimitMSGQUEUE LimitNICE LimitNOFILE LimitNPROC LimitRSS
    LimitRTPRIO LimitRTTIME LimitSIGPENDING LimitSTACK LiveMount LoadCredential LoadCredentialEncrypted
    LockPersonality LogExtraFields LogLevelMax LogNamespace LogRateLimitBurst LogRateLimitIntervalSec LogsDirectory
    LogsDirectoryMode ManagedOOMMemoryPressure ManagedOOMMemoryPressureDurationSec ManagedOOMMemoryPressureLimit
    ManagedOOMPreference ManagedOOMSwap MemoryAccounting MemoryDenyWriteExecute MemoryHigh MemoryKSM MemoryLimit
    MemoryLow MemoryMax MemoryMin MemoryPressureThresholdSec MemoryPressureWatch MemorySwapMax MemoryZSwapMax
    MemoryZSwapWriteback MountAPIVFS MountFlags MountImages NFTSet NUMAMask NUMAPolicy NetClass NetworkNamespacePath
    Nice NoExecPaths NoNewPrivileges NonBlocking NotifyAccess OOMPolicy OOMScoreAdjust OpenFile PAMName PIDFile
    PassEnvironment PermissionsStartOnly Personality PrivateBPF PrivateDevices PrivateIPC PrivateMounts
    PrivateNetwork PrivatePIDs PrivateTmp PrivateUsers ProcSubset ProtectClock ProtectControlGroups ProtectHome
    ProtectHostname ProtectKernelLogs ProtectKernelModules ProtectKernelTunables ProtectProc ProtectSystem
    ReadOnlyDirectories ReadOnlyPaths ReadWriteDirectories ReadWritePaths RebootArgument ReloadSignal
    RemainAfterExit RemoveIPC Restart RestartForceExitStatus RestartKillSignal RestartMaxDelaySec RestartMode
    RestartPreventExitStatus RestartSec RestartSteps RestrictAddressFamilies RestrictFileSystems RestrictNamespaces
    RestrictNetworkInterfaces RestrictRealtime RestrictSUIDSGID RootDirectory RootDirectoryStartOnly RootEphemeral
    RootHash RootHashSignature RootImage RootImageOptions RootVerity RuntimeDirectory RuntimeDirectoryMode
    RuntimeDirectoryPreserve RuntimeMaxSec RuntimeRandomizedExtraSec SELinuxContext SecureBits SendSIGHUP
    SendSIGKILL SetCredential SetCredentialEncrypted SetLoginEnvironment Slice SmackProcessLabel SocketBindAllow
    SocketBindDeny Sockets StandardError StandardInput StandardInputData StandardInputText StandardOutput
    StartLimitAction StartLimitBurst StartLimitInterval StartupAllowedCPUs StartupAllowedMemoryNodes
    StartupBlockIOWeight StartupCPUShares StartupCPUWeight StartupIOWeight StartupMemoryHigh StartupMemoryLow
    StartupMemoryMax StartupMemorySwapMax StartupMemoryZSwapMax StateDirectory StateDirectoryMode SuccessExitStatus
    SupplementaryGroups SurviveFinalKillSignal SysVStartPriority SyslogFacility SyslogIdentifier SyslogLevel
    SyslogLevelPrefix SystemCallArchitectures SystemCallErrorNumber SystemCallFilter SystemCallLog TTYColumns
    TTYPath TTYReset TTYRows TTYVHangup TTYVTDisallocate TasksAccounting TasksMax TemporaryFileSystem
    TimeoutAbortSec TimeoutCleanSec TimeoutSec TimeoutStartFailureMode TimeoutStartSec TimeoutStopFailureMode
    TimeoutStopSec TimerSlackNSec Type UMask USBFunctionDescriptors USBFunctionStrings UnsetEnvironment User
    UtmpIdentifier UtmpMode WatchdogSec WatchdogSignal WorkingDirectory
"""
_INSTALL = """
    Alias Also DefaultInstance RequiredBy UpheldBy WantedBy
"""

IGNORED_IN_SERVICE = frozenset({"StartLimitIntervalSec"})
"""Asked for in [Service] and not heard there (checked with 252)."""
BELONG_IN_UNIT = frozenset({"StartLimitBurst", "StartLimitInterval", "StartLimitAction"})
"""Still heard in [Service], for old units."""
SECTIONS = {
    "Unit": frozenset(_UNIT.split()),
    "Service": frozenset(_SERVICE.split()) - IGNORED_IN_SERVICE,
    "Install": frozenset(_INSTALL.split()),
}
