# SPDX-License-Identifier: Apache-2.0
# Makes a .deb and an .rpm from a folder that scripts/package has laid out: MUSTER_TREE becomes
# /usr. MUSTER_VERSION, MUSTER_ARCH (x86_64, aarch64) and MUSTER_CONTACT come from there.
set(CPACK_PACKAGE_NAME muster)
set(CPACK_PACKAGE_VERSION "$ENV{MUSTER_VERSION}")
set(CPACK_PACKAGE_FILE_NAME muster)
set(CPACK_PACKAGE_VENDOR muster)
set(CPACK_PACKAGE_CONTACT "$ENV{MUSTER_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "elastic launcher for training jobs")
set(CPACK_PACKAGE_DESCRIPTION
"muster starts the workers of a training job, gives each its rank, supervises
them, restarts them after a failure, and leaves no process behind. It takes
torchrun's command line and runs scripts unchanged. With a TCPStore server and
a library of collective operations.")
set(CPACK_PACKAGING_INSTALL_PREFIX /)
set(CPACK_INSTALLED_DIRECTORIES "$ENV{MUSTER_TREE};/usr")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
    GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# The programs are static; the library needs glibc 2.28.
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.28)")
# Stacks of hanging ranks: eu-stack is in elfutils.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "elfutils, py-spy")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3, python3-cloudpickle, python3-numpy")
set(debian_x86_64 amd64)
set(debian_aarch64 arm64)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE ${debian_$ENV{MUSTER_ARCH}})
set(control $ENV{MUSTER_TREE}.control)
file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
file(WRITE ${control}/shlibs "libmuster_collective 1 muster (>= $ENV{MUSTER_VERSION})\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${control}/triggers;${control}/shlibs")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_ARCHITECTURE $ENV{MUSTER_ARCH})
# The package does not own the system's folders. Nothing is stripped, because the tools on this
# machine support only its own architecture.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib64 /usr/share/bash-completion
    /usr/share/bash-completion/completions /usr/share/man /usr/share/man/man1 /usr/share/zsh
    /usr/share/zsh/site-functions)
set(CPACK_RPM_SPEC_MORE_DEFINE "Recommends: elfutils, py-spy
%define __os_install_post %{nil}
%define _build_id_links none
%define _buildhost localhost
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1")
