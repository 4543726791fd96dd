# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=… -DNAME=… -DBASH=FILE -DZSH=FILE -P completion_from_help.cmake: generates
# completions for bash and zsh from a small program's own --help, so that they cannot differ. Values
# named FILE or DIR are completed as such; commands are the lines that start with the program's name
# and a lower-case word.
execute_process(COMMAND ${PROGRAM} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
# These characters are special in CMake lists.
string(REPLACE ";" "," help "${help}")
string(REPLACE "[" "(" help "${help}")
string(REPLACE "]" ")" help "${help}")
string(REPLACE "-" "_" function "_${NAME}")

# How to complete a value: as a file, as a folder, or without candidates.
function(action_for value file folder other out)
  if(value STREQUAL "FILE")
    set(${out} "${file}" PARENT_SCOPE)
  elseif(value MATCHES "^\\(?DIR")
    set(${out} "${folder}" PARENT_SCOPE)
  else()
    set(${out} "${other}" PARENT_SCOPE)
  endif()
endfunction()

function(bash_action value out)
  action_for("${value}" "-f" "-d" "-W ''" action)
  set(${out} "${action}" PARENT_SCOPE)
endfunction()

function(zsh_action value out)
  action_for("${value}" "_files" "_files -/" " " action)
  set(${out} "${action}" PARENT_SCOPE)
endfunction()

set(options "")
set(bash_values "")
set(zsh_arguments "")
string(REGEX MATCHALL "\n  --[^\n]*" lines "${help}")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^\n  (--[a-z-]+)( ([A-Z]+))?(, (-[a-z]))?  +(.*)$" matched "${line}")
  set(option "${CMAKE_MATCH_1}")
  set(value "${CMAKE_MATCH_3}")
  set(letter "${CMAKE_MATCH_5}")
  string(REPLACE ":" "\\:" text "${CMAKE_MATCH_6}")
  string(REPLACE "'" "'\\''" text "${text}")
  string(STRIP "${options} ${option} ${letter}" options)
  if(value)
    bash_action("${value}" action)
    string(APPEND bash_values
      "    ${option}) COMPREPLY=($(compgen ${action} -- \"$word\")); return ;;\n")
    zsh_action("${value}" action)
    string(APPEND zsh_arguments "  '${option}=[${text}]:${value}:${action}' \\\n")
  else()
    string(APPEND zsh_arguments "  '${option}[${text}]' \\\n")
  endif()
endforeach()

set(commands "")
set(bash_commands "")
set(zsh_commands "")
string(REGEX MATCHALL "\n  ${NAME} [a-z]+ [^\n]*" lines "${help}")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^\n  ${NAME} ([a-z]+)( ([^ ]+))?" matched "${line}")
  set(command "${CMAKE_MATCH_1}")
  set(next "${CMAKE_MATCH_3}")
  list(APPEND commands ${command})
  if(next MATCHES "^[a-z]+$")
    list(APPEND ${command}_commands ${next})
  else()
    bash_action("${next}" ${command}_bash)
    zsh_action("${next}" ${command}_zsh)
  endif()
endforeach()
list(REMOVE_DUPLICATES commands)
foreach(command IN LISTS commands)
  if(${command}_commands)
    string(REPLACE ";" " " below "${${command}_commands}")
    set(${command}_bash "-W '${below}'")
    set(${command}_zsh "compadd ${below}")
  endif()
  string(APPEND bash_commands
    "    ${command}) COMPREPLY=($(compgen ${${command}_bash} -- \"$word\")) ;;\n")
  string(APPEND zsh_commands "    ${command}) ${${command}_zsh} ;;\n")
endforeach()
string(REPLACE ";" " " command_names "${commands}")

set(bash_first "")
if(commands)
  set(bash_first "  elif [[ $COMP_CWORD == 1 ]]; then
    COMPREPLY=($(compgen -W '${command_names}' -- \"$word\"))
  elif [[ $COMP_CWORD == 2 ]]; then
    case $before in
${bash_commands}    esac\n")
  string(APPEND zsh_arguments
    "  '1:command:(${command_names})' \\\n  '2:argument:${function}_second' \\\n")
  set(zsh_second "${function}_second() {\n  case $words[2] in\n${zsh_commands}  esac\n}\n")
endif()

file(WRITE ${BASH} "# bash completion for ${NAME}
${function}() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]}
  COMPREPLY=()
  case $before in
${bash_values}  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W '${options}' -- \"$word\"))
${bash_first}  fi
}
complete -o filenames -F ${function} ${NAME}
")
file(WRITE ${ZSH} "#compdef ${NAME}
${zsh_second}_arguments \\\n${zsh_arguments}  && return 0
")
